"""Small real applications that show hudhud at work."""
