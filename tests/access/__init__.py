"""Logins: stock clients against ours, and raw messages against a real server and against ours."""
