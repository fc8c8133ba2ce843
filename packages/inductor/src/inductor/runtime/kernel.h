// Everything a generated kernel may use.  No standard header is included anywhere: a kernel compiles in milliseconds.
#pragma once
#include "vector.h"
#include "half.h"
#include "arithmetic.h"
#include "elementary.h"
#include "twofold.h"
#include "special.h"
#include "random.h"
#include "reduce.h"
