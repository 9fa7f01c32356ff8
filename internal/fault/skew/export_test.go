package skew

// Shift is what the tests see of shift.
func Shift(source []byte) ([]byte, error) { return shift(source) }
