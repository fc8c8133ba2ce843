"""Facts about results that autograd's nodes tell, read off while the program is traced."""
