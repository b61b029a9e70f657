"""Why a server did not start and what its user can do: found, modelled and rendered."""
