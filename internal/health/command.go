package health

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"huolala.cn/app-operator/internal/secrecy"
)

var (
	quoted = regexp.MustCompile(`"(\\.|[^"\\])*("|$)`)
	single = regexp.MustCompile(`(^|[\s(=])'[^']*('|$)`) // And no apostrophe.
)

// withoutCommand removes the container's command, which may have a secret among its arguments, from an error of the container runtime. The
// runtime repeats the command in quotes or brackets, and once more without them. Of long words, withoutCommand reads the beginning, and it replaces all
// quoted texts in one pass, as both can be as long as a user likes.
func withoutCommand(words string) string {
	words = secrecy.CutAnswer(words)
	var said []string
	for _, text := range quoted.FindAllString(words, -1) {
		if plain, err := strconv.Unquote(text); err == nil && len(plain) > 1 {
			said = append(said, plain)
		}
	}
	words = withoutHook(quoted.ReplaceAllLiteralString(words, `"…"`))
	words = single.ReplaceAllString(words, "${1}'…'")
	words = withoutBrackets(words)
	slices.SortStableFunc(said, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(said))
	for _, text := range said {
		pairs = append(pairs, text, "…")
	}
	return strings.NewReplacer(pairs...).Replace(words)
}

// hookEnd matches the end of the command of a hook in an error of the kubelet, and how the command ended.
var hookEnd = regexp.MustCompile(`' (exited with -?\d+|timed out)`)

// withoutHook hides the command of a hook, which is in apostrophes and may have apostrophes of its own, and the output of the command
// (k8s.io/kubernetes/pkg/kubelet/lifecycle and …/kuberuntime).
func withoutHook(words string) string {
	before, rest, found := strings.Cut(words, "command '")
	if !found {
		return words
	}
	end := ""
	if all := hookEnd.FindAllString(rest, -1); len(all) > 0 {
		end = strings.TrimPrefix(all[len(all)-1], "'")
	}
	return before + "command '…'" + end
}

// backticked matches the path of a volume in an error of the kubelet: that of subPathExpr has the values of variables
// (k8s.io/kubernetes/pkg/kubelet).
var backticked = regexp.MustCompile("`[^`]*(`|$)")

// withoutSubPath hides the paths in an error of the kubelet.
func withoutSubPath(words string) string {
	return backticked.ReplaceAllLiteralString(secrecy.CutAnswer(words), "`…`")
}

// withoutBrackets hides the text between the first and the last bracket, as a script may have brackets of its own, and all from the first
// bracket on where one is not closed.
func withoutBrackets(words string) string {
	before, rest, found := strings.Cut(words, "[")
	if !found {
		return words
	}
	last := strings.LastIndexByte(rest, ']')
	if last < 0 || strings.Count(rest, "[")+1 > strings.Count(rest, "]") {
		return before + "[…]"
	}
	return before + "[…]" + rest[last+1:]
}
