"""How each kind of value is made again by the transformed code, and how changes of objects are made real."""
