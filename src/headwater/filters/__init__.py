"""Row filters of publications, evaluated over whole columns of rows as the server evaluates them row by row."""
