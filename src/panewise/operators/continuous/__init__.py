"""Windows without SLIDE: their relation changes with every row and every expiration."""
