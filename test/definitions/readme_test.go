package definitions

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// codeBlock matches a fenced block of code, and link the target of a link.
var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?\n```$")
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// TestTranslationHasTheSameCommands checks that README.zh-CN.md has the blocks of code of README.md, and its links to other
// pages. A translation that falls behind must not send its readers to commands that no longer work.
func TestTranslationHasTheSameCommands(t *testing.T) {
	const original, translation = "README.md", "README.zh-CN.md"
	pages := map[string]string{original: "", translation: ""}
	for name := range pages {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(data)
	}
	want, got := codeBlock.FindAllString(pages[original], -1), codeBlock.FindAllString(pages[translation], -1)
	if len(want) == 0 {
		t.Fatalf("%s has no block of code", original)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("blocks of code (-%s +%s); copy those of %s:\n%s", original, translation, original, diff)
	}
	if diff := cmp.Diff(targets(pages[original], translation), targets(pages[translation], original)); diff != "" {
		t.Errorf("links (-%s +%s):\n%s", original, translation, diff)
	}
}

// targets returns the targets of all links of a page but those to its translation, each once.
func targets(page, translation string) []string {
	var found []string
	for _, match := range link.FindAllStringSubmatch(page, -1) {
		if match[1] != translation {
			found = append(found, match[1])
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestLinksLeadSomewhere checks the links of all pages to files of this tree and to headings in them.
func TestLinksLeadSomewhere(t *testing.T) {
	pages, headings := markdown(t), map[string][]string{}
	for path, page := range pages {
		headings[path] = anchors(page)
	}
	for path, page := range pages {
		for _, match := range link.FindAllStringSubmatch(codeBlock.ReplaceAllString(page, ""), -1) {
			file, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(file, ":") {
				continue // of another site
			}
			to := path
			if file != "" {
				to = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
			} else if known, page := headings[to]; anchor != "" && page && !slices.Contains(known, anchor) {
				t.Errorf("%s links to %s, but %s has no such heading", path, match[1], to)
			}
		}
	}
}

// markdown returns all pages of the tree that people write and read, by their paths.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "hack/*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no page matches %s: %v", pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			pages[relative] = string(data)
		}
	}
	return pages
}

var (
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	elementID = regexp.MustCompile(`id="([^"]+)"`)
)

// anchors returns the anchors that a page has for its headings, as GitHub makes them.
func anchors(page string) []string {
	var found []string
	page = codeBlock.ReplaceAllString(page, "")
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		text := strings.ToLower(linkText.ReplaceAllString(match[1], "$1"))
		found = append(found, strings.ReplaceAll(dropped.ReplaceAllString(text, ""), " ", "-"))
	}
	for _, match := range elementID.FindAllStringSubmatch(page, -1) {
		found = append(found, match[1])
	}
	return found
}

var (
	command    = regexp.MustCompile("(?m)(?:^|`|[;&(] ?|run: )make( [^`\n#;&|)]*)")
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	targetName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// TestDocumentedTargetsExist checks that each target of make that a page or a workflow names is in the Makefile.
func TestDocumentedTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, match := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		known[match[1]] = true
	}
	pages := markdown(t)
	workflows, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.yml"))
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, path := range workflows {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages[path] = string(data)
	}
	named := 0
	for path, page := range pages {
		for _, match := range command.FindAllStringSubmatch(page, -1) {
			for word := range strings.FieldsSeq(match[1]) {
				if !targetName.MatchString(word) {
					continue
				}
				named++
				if !known[word] {
					t.Errorf("%s says make %s, which is no target of the Makefile", path, word)
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("found %d targets in all pages, want at least 50: the pattern no longer finds them", named)
	}
}

// TestDecisionsAreIndexed checks that docs/adr/README.md has a row for each decision record, with its number, title, status
// and date, and that each record has the headings that a reader looks for.
func TestDecisionsAreIndexed(t *testing.T) {
	const folder = "docs/adr"
	pages := markdown(t)
	index, first := pages[folder+"/README.md"], regexp.MustCompile(`^# (\d+)\. (.+)\n\n\*\*Status:\*\* [a-z]+, (\d{4}-\d\d-\d\d)\.`)
	records := 0
	for path, page := range pages {
		name := filepath.Base(path)
		if filepath.Dir(path) != folder || name == "README.md" {
			continue
		}
		records++
		match := first.FindStringSubmatch(page)
		if match == nil {
			t.Errorf("%s does not begin with its number, title, status and date: %s", path, first)
			continue
		}
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(match[1]+" | ["+match[2]+"]("+name+")") + ` \| [^|]+ \| ` + match[3] + ` \|$`)
		if !row.MatchString(index) {
			t.Errorf("%s/README.md has no row for %s: %s", folder, name, row)
		}
		if !strings.HasPrefix(strings.TrimLeft(name, "0"), match[1]+"-") {
			t.Errorf("%s has the number %s", path, match[1])
		}
		for _, wanted := range []string{"Context", "Decision", "Consequences"} {
			if !strings.Contains(page, "\n## "+wanted+"\n\n") {
				t.Errorf("%s has no heading %q", path, wanted)
			}
		}
	}
	if rows := strings.Count(index, "](0"); rows != records {
		t.Errorf("%s/README.md has %d rows for %d records", folder, rows, records)
	}
}
