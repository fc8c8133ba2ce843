"""What the nodes of autograd tell of results, read off while the program is traced."""
