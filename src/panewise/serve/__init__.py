"""The user interfaces: the command line (`cli`), the server (`http`), its client (`client`), drawings (`drawing`)."""
