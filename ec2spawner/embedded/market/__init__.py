"""What can be bought and at what price: instance types, capacity, spot prices, price list."""
