// The few lines of C that Swift cannot say.
#pragma once
