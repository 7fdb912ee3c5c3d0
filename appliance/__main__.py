"""`python -m appliance` is the console script."""

from appliance.cli import main

main()
