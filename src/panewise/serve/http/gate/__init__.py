"""Who may ask, how often, how much and for what: judged before a route is reached."""
