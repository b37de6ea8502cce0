"""The far side of grading: the worker that runs the code of a submission, and the way to it."""
