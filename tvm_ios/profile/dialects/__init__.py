"""What prices and races ask of the dialect of this process's TVM, and what each answers."""
