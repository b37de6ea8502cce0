"""The sandbox: the worker that runs the code of a submission, and the connection to it."""
