package ui

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"huolala.cn/app-operator/plugin/view"
)

// moreRows is how many rows the list has at first, and how many more each time that more are asked for.
const moreRows = 200

// maxFilter is how many bytes of a filter count. Each word of it is looked for in each row, after each change. The field takes no more.
const maxFilter = 256

// choice has the query of a list's address: the filter and the number of rows.
type choice struct {
	filter string
	// rows is how many rows there are, and most how many there may be, 0 for any number.
	rows, most int
	// refresh is true for a page that loads itself again and again.
	refresh bool
	// wall is true for tiles in place of rows.
	wall bool
}

// choiceOf returns the choice in an address.
func choiceOf(address *url.URL) choice {
	query := address.Query()
	rows, _ := strconv.ParseUint(query.Get("rows"), 10, 31) // An invalid number means the smallest one.
	filter := query.Get("filter")
	if len(filter) > maxFilter {
		filter = strings.ToValidUTF8(filter[:maxFilter], "")
	}
	return choice{filter: filter, rows: max(moreRows, int(rows)), refresh: query.Has("refresh"), wall: query.Get("view") == "wall"}
}

// requestedChoice returns the choice in the address of a request. The list of a viewer has a limited number of rows.
func (s *Server) requestedChoice(r *http.Request) choice {
	c := choiceOf(r.URL)
	if s.options.Viewer != nil {
		c.most, c.rows = viewerRows, min(viewerRows, c.rows)
	}
	return c
}

// encodeQuery is the choice as the end of an address.
func (c choice) encodeQuery() string {
	query := url.Values{}
	if c.filter != "" {
		query.Set("filter", c.filter)
	}
	if c.rows != moreRows {
		query.Set("rows", strconv.Itoa(c.rows))
	}
	if c.wall {
		query.Set("view", "wall")
	}
	if c.refresh {
		query.Set("refresh", "")
	}
	return "?" + query.Encode()
}

// withValue returns the choice with a value for a column in its filter, which replaces the previous one; an empty value removes it.
func (c choice) withValue(column, value string) choice {
	words := slices.DeleteFunc(strings.Fields(c.filter), func(word string) bool { return valueOf(word, column) != "" })
	if value != "" {
		words = append(words, column+":"+value)
	}
	c.filter, c.rows = strings.Join(words, " "), moreRows
	return c
}

// filterValue returns the value that the filter names for a column, empty if it names none.
func (c choice) filterValue(column string) string {
	for word := range strings.FieldsSeq(c.filter) {
		if value := valueOf(word, column); value != "" {
			return value
		}
	}
	return ""
}

// valueOf returns the value that a word of a filter names for a column, empty if it names none.
func valueOf(word, column string) string {
	name, value, _ := strings.Cut(strings.ToLower(word), ":")
	if name != column {
		return ""
	}
	return value
}

// item is a row with the address of its page, or the heading of a group.
type item struct {
	view.Row
	Link string
	// For is the time since which the state lasts, in words.
	For string
	// From and To are the version that serves where it is another one, and the version of the spec.
	From, To string
	// Heading is the name of a group with so many rows, empty for a row.
	Heading string
	Number  int
}

// newItem returns the item of a row.
func (s *Server) newItem(row *view.Row, now time.Time) item {
	i := item{Row: *row, Link: s.resourcePath(row.Kind, row.Namespace, row.Name), To: view.VersionOf(row.Image)}
	if row.Serving != "" {
		i.From, i.To = view.DifferingVersions(row.Serving, row.Image)
	}
	if row.Since != nil {
		i.For = view.CoarseDuration(now.Sub(row.Since.Time))
	}
	return i
}

// ID identifies the item on its page.
func (i *item) ID() string {
	if i.Heading != "" {
		return "group/" + string(i.State.Group())
	}
	return strings.ToLower(i.Kind) + "/" + i.Namespace + "/" + i.Name
}

// barWidth is the width of the bar in its picture.
const barWidth = 72

// ReadyPart is the part of the bar for the pods that are ready.
func (i *item) ReadyPart() int { return barPart(i.Pods.Ready, i.Pods.Wanted) }

// NewPart is the part of the bar for the pods of the new version while a rollout replaces pods.
func (i *item) NewPart() int {
	if i.State != view.StateRolling {
		return 0
	}
	return barPart(i.Pods.Updated, i.Pods.Wanted)
}

func barPart(n, of int) int {
	if of <= 0 {
		return 0
	}
	return max(0, min(barWidth, barWidth*n/of))
}

// maxName is how many characters of a namespace and a name a row has room for.
const maxName = 36

// IsLong reports whether the row may be too narrow for the name.
func (i *item) IsLong() bool { return len(i.Namespace)+len(i.Name) > maxName }

// count is how many resources a filter finds.
type count struct {
	Sign   string
	Mark   view.Mark
	Number int
	option
}

// menu has the values that a column can be limited to.
type menu struct {
	Name, Chosen string
	Options      []option
}

// option is a link to the list with another filter.
type option struct {
	Text, Link string
	Chosen     bool
}

func (s *Server) listPage(w http.ResponseWriter, r *http.Request) {
	data, chosen := s.commonData(r), s.requestedChoice(r)
	found, problem, err := s.readPage(r, Topic{})
	data["Events"] = s.pagePath("events") + chosen.encodeQuery()
	s.addList(data, chosen, found.list, err)
	s.addTime(data, &found, problem)
	status := http.StatusOK
	if err != nil {
		status = http.StatusBadGateway
	}
	data["Wall"], data["Page"] = chosen.wall, "list"
	if chosen.wall {
		data["Page"] = "wall"
	}
	s.renderPage(w, status, "list.html", data)
}

// addList adds the rows that were chosen, or why there are none.
func (s *Server) addList(data map[string]any, chosen choice, list *view.List, err error) {
	data["Filter"], data["Refresh"] = chosen.filter, chosen.refresh
	again := chosen
	again.refresh = !chosen.refresh
	data["Again"] = again.encodeQuery()
	if err != nil {
		problem := view.ErrorText(err)
		if s.options.Viewer != nil && errors.Is(err, ErrNoKind) {
			problem += messageViewerRights
		}
		data["Problem"] = problem
		return
	}
	var rows []*view.Row
	for i := range list.Items {
		if row := &list.Items[i]; matchesFilter(row, chosen.filter) {
			rows = append(rows, row)
		}
	}
	all := chosen
	all.filter = ""
	data["Counts"], data["Menus"], data["NotShown"] = countsOf(list.Items, chosen), menusOf(list.Items, chosen), list.NotShown
	data["None"], data["Clear"] = len(rows) == 0, all.encodeQuery()
	numbers := map[view.Group]int{}
	for _, row := range rows {
		numbers[row.State.Group()]++
	}
	left := len(rows) - chosen.rows
	if left > 0 {
		rows = rows[:chosen.rows]
	}
	items := s.itemsOf(rows, numbers, chosen.wall)
	if left > 0 {
		data["Left"] = left
	}
	if left > 0 && (chosen.most == 0 || chosen.rows < chosen.most) {
		chosen.rows += moreRows
		data["More"] = option{Text: strconv.Itoa(min(left, moreRows)), Link: chosen.encodeQuery() + "#" + items[len(items)-1].ID()}
	}
	data["Items"] = items
}

// itemsOf returns the items of rows, each group below a heading unless they are tiles.
func (s *Server) itemsOf(rows []*view.Row, numbers map[view.Group]int, wall bool) []item {
	var items []item
	var last view.Group
	now := s.options.Now()
	for _, row := range rows {
		if group := row.State.Group(); group != last && !wall {
			items = append(items, item{Row: view.Row{State: row.State}, Heading: group.Words(), Number: numbers[group]})
			last = group
		}
		items = append(items, s.newItem(row, now))
	}
	return items
}

// countsOf returns the numbers of the resources without a ready pod and of the resources of each group, regardless of the filter, with links.
func countsOf(all []view.Row, chosen choice) []count {
	down, numbers := 0, map[view.Group]int{}
	for i := range all {
		numbers[all[i].State.Group()]++
		if all[i].Pods.Down() {
			down++
		}
	}
	var counts []count
	if down > 0 {
		counts = append(counts, count{view.MarkBad.Sign(), view.MarkBad, down, newOption(chosen, columnPods, podsNone).withText(textNoPods)})
	}
	for _, group := range view.Groups {
		if n := numbers[group]; n > 0 {
			text := strings.ToLower(group.Words())
			if group == view.GroupNeedsYou && n > 1 {
				text = textNeedYou
			}
			counts = append(counts, count{group.Mark().Sign(), group.Mark(), n, newOption(chosen, columnGroup, string(group)).withText(text)})
		}
	}
	return counts
}

// The columns of a filter that no row shows as such: the group of the state, and whether pods are ready.
const (
	columnGroup, columnPods = "group", "pods"
	podsNone, podsSome      = "none", "some"
	textNoPods, textNeedYou = "without a ready pod", "need you"
)

// withText returns the option with another text.
func (o option) withText(text string) option {
	o.Text = text
	return o
}

// menusOf returns the kinds and namespaces that there are, where there are several.
func menusOf(all []view.Row, chosen choice) []menu {
	kinds, namespaces := map[string]bool{}, map[string]bool{}
	for i := range all {
		kinds[all[i].Kind], namespaces[all[i].Namespace] = true, true
	}
	var menus []menu
	for _, m := range []struct {
		column string
		values map[string]bool
	}{{"kind", kinds}, {"namespace", namespaces}} {
		if len(m.values) < 2 && chosen.filterValue(m.column) == "" {
			continue
		}
		made := menu{Name: m.column, Chosen: cmp.Or(chosen.filterValue(m.column), "all")}
		made.Options = append(made.Options, option{"all", chosen.withValue(m.column, "").encodeQuery(), made.Chosen == "all"})
		for _, value := range slices.Sorted(maps.Keys(m.values)) {
			option := newOption(chosen, m.column, value)
			if option.Chosen { // As the cluster writes it.
				made.Chosen = value
			}
			made.Options = append(made.Options, option)
		}
		menus = append(menus, made)
	}
	return menus
}

// newOption returns the link that limits a column to a value, or that removes this limit where the filter has it.
func newOption(chosen choice, column, value string) option {
	if strings.EqualFold(chosen.filterValue(column), value) {
		return option{value, chosen.withValue(column, "").encodeQuery(), true}
	}
	return option{value, chosen.withValue(column, value).encodeQuery(), false}
}

// matchesFilter reports whether a row suits all words of a filter: each is in one of its columns, or, with the name of a column before it, as in
// "state:ready", is the whole of that one.
func matchesFilter(row *view.Row, filter string) bool {
	columns := map[string]string{
		"kind": row.Kind, "namespace": row.Namespace, "name": row.Name, "state": string(row.State), "reason": row.Reason,
		columnGroup: string(row.State.Group()), columnPods: podsSome,
	}
	if row.Pods.Down() {
		columns[columnPods] = podsNone
	}
	text := strings.ToLower(strings.Join([]string{
		row.Kind, row.Namespace + "/" + row.Name, string(row.State), row.Reason, row.Words(), row.Image,
	}, " "))
	for word := range strings.FieldsSeq(strings.ToLower(filter)) {
		column, value, _ := strings.Cut(word, ":")
		if whole, found := columns[column]; found && strings.EqualFold(whole, value) {
			continue
		}
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
