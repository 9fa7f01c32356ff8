package figures

import (
	"math"
	"slices"
)

// Ratio returns the median of ours over raw, value by value, so that a machine whose speed
// drifts spoils none.
func Ratio(ours, raw []float64) float64 {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / raw[i]
	}
	return Round(Median(ratios))
}

// Round returns x with three decimals.
func Round(x float64) float64 { return math.Round(x*1000) / 1000 }

// Median returns the mean of the two values in the middle, or the one there is.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Quantile returns the value at q of the sorted values, without interpolation.
func Quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1))]
}
