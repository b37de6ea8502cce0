"""The classes and functions of the five source documents, by their names and with their arguments.

One module a document: `reference` is document 000, `note` 001, `notebook` 002, `readme` 004; 003 has no code. A program
that was written for one of them needs another import and nothing else. Below stands the code of this course, so
what was wrong there is right here: each docstring says what had to differ.
"""
