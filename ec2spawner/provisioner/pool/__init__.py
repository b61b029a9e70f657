"""The warm pool: how many instances wait, what is bought for them, and what failed."""
