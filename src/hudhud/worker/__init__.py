"""The worker: claims jobs, runs their handlers, settles what they came to."""
