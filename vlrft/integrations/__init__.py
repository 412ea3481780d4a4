"""The loss core inside other people's trainers. Each file needs the package it is named after."""
