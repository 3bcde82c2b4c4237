"""What can be seen of a deployment from outside: metrics, alert rules, a dashboard, and traces."""
