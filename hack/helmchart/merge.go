package main

import (
	"fmt"
	"slices"
	"strings"
)

// line is a line of a template, and in which variants it is.
type line struct {
	text string
	in   []bool
}

// merge returns the lines of all variants of a text, each line once for all variants that have it at the same place.
func merge(variants [][]string) []line {
	var merged []line
	for v, lines := range variants {
		merged = insert(merged, lines, v, len(variants))
	}
	return merged
}

// insert adds variant number v to merged lines, by the longest common subsequence.
func insert(merged []line, lines []string, v, of int) []line {
	longest := make([][]int, len(merged)+1)
	for i := range longest {
		longest[i] = make([]int, len(lines)+1)
	}
	for i := len(merged) - 1; i >= 0; i-- {
		for j := len(lines) - 1; j >= 0; j-- {
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			if merged[i].text == lines[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			}
		}
	}
	var out []line
	i, j := 0, 0
	for i < len(merged) || j < len(lines) {
		switch {
		case i < len(merged) && j < len(lines) && merged[i].text == lines[j]:
			merged[i].in[v] = true
			out = append(out, merged[i])
			i, j = i+1, j+1
		case j == len(lines) || i < len(merged) && longest[i+1][j] >= longest[i][j+1]:
			out = append(out, merged[i])
			i++
		default:
			added := line{lines[j], make([]bool, of)}
			added.in[v] = true
			out = append(out, added)
			j++
		}
	}
	return out
}

// write returns the template of merged lines. Bit b of a variant's number is set if values[b] is on.
func write(merged []line, values []string) string {
	var b strings.Builder
	for i := 0; i < len(merged); {
		next := i
		for next < len(merged) && slices.Equal(merged[next].in, merged[i].in) {
			next++
		}
		condition := condition(merged[i].in, values)
		if condition != "" {
			fmt.Fprintf(&b, "{{- if %s }}\n", condition)
		}
		for ; i < next; i++ {
			b.WriteString(merged[i].text + "\n")
		}
		if condition != "" {
			b.WriteString("{{- end }}\n")
		}
	}
	return b.String()
}

// condition returns when a line is there: empty for always, one value if that decides, or else all combinations of values.
func condition(in []bool, values []string) string {
	if !slices.Contains(in, false) {
		return ""
	}
	for b, value := range values {
		on, off := true, true
		for v, present := range in {
			on = on && present == (v>>b&1 == 1)
			off = off && present == (v>>b&1 == 0)
		}
		switch {
		case on:
			return ".Values." + value
		case off:
			return "not .Values." + value
		}
	}
	var cases []string
	for v, present := range in {
		if !present {
			continue
		}
		var terms []string
		for b, value := range values {
			if v>>b&1 == 1 {
				terms = append(terms, ".Values."+value)
			} else {
				terms = append(terms, "(not .Values."+value+")")
			}
		}
		cases = append(cases, "(and "+strings.Join(terms, " ")+")")
	}
	if len(cases) == 1 {
		return cases[0][1 : len(cases[0])-1]
	}
	return "or " + strings.Join(cases, " ")
}
