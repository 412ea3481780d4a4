"""The loss core inside other trainers. Each file needs the package that it is named after."""
