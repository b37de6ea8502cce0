"""What the tests of the book read: notebooks, their form, the glossary, the built site."""
