"""What the tests of the grader need: sandboxes, hostile surroundings, judges that fail, submissions."""
