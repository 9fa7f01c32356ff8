package scale

import (
	"math"
	"testing"
)

func TestSolve(t *testing.T) {
	t.Parallel()
	// 2a+b+c=7, a+3b+2c=13, a+b+4c=15
	x := solve([3][4]float64{{2, 1, 1, 7}, {1, 3, 2, 13}, {1, 1, 4, 15}})
	for i, want := range []float64{1, 2, 3} {
		if math.Abs(x[i]-want) > 1e-6 {
			t.Errorf("got %v, want %v", x[i], want)
		}
	}
}
