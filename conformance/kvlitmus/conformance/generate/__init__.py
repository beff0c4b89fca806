"""What is played: schedules decoded from bytes, the interpreter that plays them, and how they are shrunk."""
