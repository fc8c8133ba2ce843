"""Writers that make each kind of value again in the transformed code, and changes of objects real."""
