"""The techniques: structures over slices that answer windows of any length, a file each."""
