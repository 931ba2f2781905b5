package ui

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"huolala.cn/app-operator/plugin/view"
)

// moreRows is how many rows the list has at first, and how many more each time that more are asked for.
const moreRows = 200

// choice has the query of a list's address: the filter and the number of rows.
type choice struct {
	filter string
	// rows is how many rows there are at most.
	rows int
	// refresh is true for a page that loads itself again and again.
	refresh bool
}

// choiceOf returns the choice in an address.
func choiceOf(address *url.URL) choice {
	query := address.Query()
	rows, _ := strconv.ParseUint(query.Get("rows"), 10, 31) // An invalid number means the smallest one.
	return choice{filter: query.Get("filter"), rows: max(moreRows, int(rows)), refresh: query.Has("refresh")}
}

// query is the choice as the end of an address.
func (c choice) query() string {
	query := url.Values{}
	if c.filter != "" {
		query.Set("filter", c.filter)
	}
	if c.rows != moreRows {
		query.Set("rows", strconv.Itoa(c.rows))
	}
	if c.refresh {
		query.Set("refresh", "")
	}
	return "?" + query.Encode()
}

// with returns the choice with a value for a column in its filter, which replaces the previous one; an empty value removes it.
func (c choice) with(column, value string) choice {
	words := slices.DeleteFunc(strings.Fields(c.filter), func(word string) bool { return valueOf(word, column) != "" })
	if value != "" {
		words = append(words, column+":"+value)
	}
	c.filter, c.rows = strings.Join(words, " "), moreRows
	return c
}

// of returns the value that the filter names for a column, empty if it names none.
func (c choice) of(column string) string {
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

// item is a row with the address of its page.
type item struct {
	view.Row
	Link string
}

// ID identifies the row on its page.
func (i *item) ID() string { return strings.ToLower(i.Kind) + "/" + i.Namespace + "/" + i.Name }

// count is how many resources are in a state.
type count struct {
	State  view.State
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
	data, chosen := s.common(r), choiceOf(r.URL)
	list, problem, err := s.readList(r)
	data["Events"] = s.page("events") + chosen.query()
	s.addList(data, chosen, list, err)
	if problem != "" {
		data["Problem"] = problem
	}
	status := http.StatusOK
	if err != nil {
		status = http.StatusBadGateway
	}
	s.render(w, status, "list.html", data)
}

// addList adds the rows that were chosen, or why there are none.
func (s *Server) addList(data map[string]any, chosen choice, list *view.List, err error) {
	data["Filter"], data["Refresh"] = chosen.filter, chosen.refresh
	again := chosen
	again.refresh = !chosen.refresh
	data["Again"] = again.query()
	if err != nil {
		data["Problem"] = view.Clean(err.Error())
		return
	}
	var items []item
	for i := range list.Items {
		if row := &list.Items[i]; matches(row, chosen.filter) {
			items = append(items, item{*row, s.address(row.Kind, row.Namespace, row.Name)})
		}
	}
	data["Counts"], data["Menus"], data["NotShown"] = countsOf(list.Items, chosen), menusOf(list.Items, chosen), list.NotShown
	data["None"] = len(items) == 0
	if left := len(items) - chosen.rows; left > 0 {
		items = items[:chosen.rows]
		chosen.rows += moreRows
		data["Left"], data["More"] = left, option{Text: strconv.Itoa(min(left, moreRows)), Link: chosen.query() + "#" + items[len(items)-1].ID()}
	}
	data["Items"] = items
}

// countsOf counts the resources in each state, regardless of the filter, with links to them.
func countsOf(all []view.Row, chosen choice) []count {
	numbers := map[view.State]int{}
	for i := range all {
		numbers[all[i].State]++
	}
	var counts []count
	for _, state := range []view.State{
		view.StateStalled, view.StateDeleting, view.StateUnobserved, view.StateProgressing, view.StatePaused, view.StateReady,
	} {
		if numbers[state] > 0 {
			counts = append(counts, count{state, numbers[state], newOption(chosen, "state", string(state))})
		}
	}
	return counts
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
		if len(m.values) < 2 && chosen.of(m.column) == "" {
			continue
		}
		made := menu{Name: m.column, Chosen: cmp.Or(chosen.of(m.column), "all")}
		made.Options = append(made.Options, option{"all", chosen.with(m.column, "").query(), made.Chosen == "all"})
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
	if strings.EqualFold(chosen.of(column), value) {
		return option{value, chosen.with(column, "").query(), true}
	}
	return option{value, chosen.with(column, value).query(), false}
}

// matches reports whether a row suits all words of a filter: each is in one of its columns, or, with the name of a column before it, as in
// "state:ready", is the whole of that one.
func matches(row *view.Row, filter string) bool {
	columns := map[string]string{
		"kind": row.Kind, "namespace": row.Namespace, "name": row.Name, "state": string(row.State), "reason": row.Reason,
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
