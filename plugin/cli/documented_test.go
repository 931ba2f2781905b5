package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

var (
	// codeSpan is a span of code in a text.
	codeSpan = regexp.MustCompile("`[^`\n]+`")
	// happCommand is a command of the plug-in, up to a comment or a further command.
	happCommand = regexp.MustCompile("kubectl happ( [^`#;|&>)\n]*)?")
)

// TestDocumentedCommandsParse checks that each command of the plug-in that a page shows exists, with its flags and its number of
// arguments. A text that only names a command may lack the arguments.
func TestDocumentedCommandsParse(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "docs/runbooks/*.md"} {
		pages, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(pages) == 0 {
			t.Fatalf("no page matches %s: %v", pattern, err)
		}
		for _, page := range pages {
			data, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			inBlock := false
			for i, line := range strings.Split(string(data), "\n") {
				if strings.HasPrefix(line, "```") {
					inBlock = !inBlock
					continue
				}
				for _, span := range documentedSpans(line, inBlock) {
					seen++
					if err := parseDocumented(span, inBlock); err != nil {
						t.Errorf("%s, line %d: kubectl happ %s: %v", page, i+1, span, err)
					}
				}
			}
		}
	}
	if seen < 80 {
		t.Errorf("the pages have %d commands, so the search for commands is broken", seen)
	}
}

// documentedSpans returns the arguments of each command of the plug-in in a line.
func documentedSpans(line string, inBlock bool) []string {
	var found []string
	spans := []string{line}
	if !inBlock {
		spans = codeSpan.FindAllString(line, -1)
	}
	for _, span := range spans {
		for _, match := range happCommand.FindAllStringSubmatch(span, -1) {
			args, _, _ := strings.Cut(match[1], ". ") // The end of a sentence of an output.
			if args = strings.TrimSpace(args); args != "" {
				found = append(found, args)
			}
		}
	}
	return found
}

// placeholders are the words of the pages that stand for a value, with a value.
var placeholders = strings.NewReplacer("'", "", `"`, "", "[", "", "]", "", "REVISION", "1", "COMMAND", "plan")

// parseDocumented finds a command, and parses its flags and arguments. whole is true for a line that a reader runs.
func parseDocumented(text string, whole bool) error {
	r := &root{flags: genericclioptions.NewConfigFlags(true)}
	words := strings.Fields(placeholders.Replace(text))
	if !whole && strings.HasPrefix(words[len(words)-1], "-") { // A text may leave the value of a flag out.
		words = append(words, "1")
	}
	cmd, args, err := r.rootCommand().Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(args); err != nil || !whole {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
		return fmt.Errorf("arguments %q: %w", cmd.Flags().Args(), err)
	}
	return nil
}
