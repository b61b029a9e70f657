"""What is known of instances: listed, launched, claimed, retained, reclaimed. No decisions."""
