"""A search for programs that compiled code runs differently from eager: made at random, judged, and made small."""
