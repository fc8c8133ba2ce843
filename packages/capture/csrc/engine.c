/* The state of the process, which module.c fills and everybody reads. */
#include "engine.h"

Engine engine;
