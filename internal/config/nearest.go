package config

import (
	"fmt"
	"strings"
)

// suggestion is the end of a message about an unknown name.
func suggestion(nearest string) string {
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", nearest)
}

// NearestTopic is the topic setting whose name is most like the given one, or "".
func NearestTopic(name string) string { return nearest(name, topicIndex) }

// nearest finds the name with the fewest edits, if they are few enough to be a slip.
func nearest(name string, known *index) string {
	name = strings.ToLower(name)
	best, bestEdits := "", max(3, len(name)/4)+1
	for _, row := range known.rows {
		if row.Internal || row.Effect == Removed {
			continue
		}
		if edits := editDistance(name, row.Name); edits < bestEdits {
			best, bestEdits = row.Name, edits
		}
	}
	return best
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours that make a into b.
func editDistance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, above, row = above, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := above[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
