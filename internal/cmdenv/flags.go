package cmdenv

import "github.com/spf13/cobra"

// Given returns a pointer to a flag's value, nil if the flag was not given.
func Given[T any](c *cobra.Command, flag string, value T) *T {
	if !c.Flags().Changed(flag) {
		return nil
	}
	return &value
}

// NotEmpty returns a list without its empty items. A flag that is given once with an empty value makes an empty list.
func NotEmpty(in []string) []string {
	out := []string{}
	for _, s := range in {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}
