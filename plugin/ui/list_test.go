package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/plugin/view"
)

// readable returns an address as a person would write it.
func readable(address string) string { return strings.ReplaceAll(address, "%3A", ":") }

// TestChoice reads addresses of the list, limits columns, and writes the addresses that mean this.
func TestChoice(t *testing.T) {
	t.Parallel()
	for address, c := range map[string]struct {
		column, value string
		want          string
	}{
		"/":                                 {"state", "Ready", "?filter=state:Ready"},
		"/?filter=cart":                     {"kind", "App", "?filter=cart+kind:App"},
		"/?filter=kind:app+cart":            {"kind", "ModelBox", "?filter=cart+kind:ModelBox"},
		"/?filter=kind:app+cart+kind:other": {"kind", "", "?filter=cart"},
		"/?filter=kind:app":                 {"kind", "", "?"},
		"/?filter=kind:+cart":               {"kind", "", "?filter=kind:+cart"},
		"/?filter=a%26b&refresh=":           {"state", "Ready", "?filter=a%26b+state:Ready&refresh="},
		"/?rows=600":                        {"state", "Ready", "?filter=state:Ready"},
		"/?view=wall&filter=a":              {"kind", "App", "?filter=a+kind:App&view=wall"},
	} {
		parsed, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := readable(choiceOf(parsed).withValue(c.column, c.value).encodeQuery()); got != c.want {
			t.Errorf("%s with %s %q: %s, want %s", address, c.column, c.value, got, c.want)
		}
	}
	for rows, want := range map[string]int{"": 200, "x": 200, "-4": 200, "3": 200, "400": 400, "99999999999999999999": 1<<31 - 1} {
		chosen := choiceOf(&url.URL{RawQuery: url.Values{"rows": {rows}}.Encode()})
		if chosen.rows != want {
			t.Errorf("rows %q: %d, want %d", rows, chosen.rows, want)
		}
	}
}

// many is a cluster with Apps in some namespaces, and a ModelBox.
type many struct {
	*fake
	list *view.List
}

func newMany(apps int) *many {
	var resources []view.Resource
	for i := range apps {
		app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("shop-%d", i%3), Name: fmt.Sprintf("app-%04d", i)}}
		r, _ := view.ResourceOf(app)
		resources = append(resources, r)
	}
	box, _ := view.ResourceOf(&appv1.ModelBox{ObjectMeta: metav1.ObjectMeta{Namespace: "models", Name: "box"}})
	m := &many{fake: newFake()}
	m.list = view.RowsOf(append(resources, box), nil)
	return m
}

// TestMoreRows asks for more and more rows, until all are there.
func TestMoreRows(t *testing.T) {
	t.Parallel()
	m := newMany(449)
	s := listen(t, m.fake)
	for asked, c := range map[int]struct {
		rows, left int
		next       string
	}{
		200: {200, 250, "?filter=app&rows=400"}, 400: {400, 50, "?filter=app&rows=600"}, 600: {450, 0, ""},
	} {
		data := map[string]any{}
		filter := "app" // The ModelBox is of the group app.huolala.cn, but no column says so.
		s.addList(data, choice{filter: filter, rows: asked}, m.list, nil)
		items, _ := data["Items"].([]item)
		items = slices.DeleteFunc(items, func(i item) bool { return i.Heading != "" })
		left, _ := data["Left"].(int)
		more, _ := data["More"].(option)
		link, at, _ := strings.Cut(more.Link, "#")
		if c.left == 0 {
			c.rows--
		} else {
			c.left--
		}
		if len(items) != c.rows || left != c.left || link != c.next {
			t.Errorf("%d rows: there are %d, %d are left, and more at %q; want %+v", asked, len(items), left, link, c)
		}
		if c.next != "" && at != items[len(items)-1].ID() {
			t.Errorf("%d rows: more of them begin at %q", asked, at)
		}
	}
	text, err := executeTemplate("rest", map[string]any{"Left": 50, "More": option{Text: "50", Link: "?rows=600#app/a/b"}})
	if err != nil || !strings.Contains(text, `50 more: use the filter, or <a href="?rows=600#app/a/b">show 50 of them</a>.`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestLongTextsOfRows has messages of quotes in all rows: a page has the beginning of each.
func TestLongTextsOfRows(t *testing.T) {
	t.Parallel()
	const rows = 200
	long := strings.Repeat(`"`, 4000)
	var resources []view.Resource
	for i := range rows {
		app := &appv1.App{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("app-%04d", i)}}
		app.Spec.Image = "registry.example.com/" + strings.Repeat("a/", 400) + "b:1"
		for _, kind := range []string{appv1.ConditionReady, appv1.ConditionStalled} {
			status := map[string]metav1.ConditionStatus{appv1.ConditionReady: metav1.ConditionFalse, appv1.ConditionStalled: metav1.ConditionTrue}[kind]
			app.Status.Conditions = append(app.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: appv1.ReasonInvalid, Message: long})
		}
		r, _ := view.ResourceOf(app)
		resources = append(resources, r)
	}
	data := map[string]any{}
	listen(t, newFake()).addList(data, choice{rows: rows}, view.RowsOf(resources, nil), nil)
	items, _ := data["Items"].([]item)
	total := 0
	for i := range items {
		text, err := executeTemplate("row", &items[i])
		if err != nil {
			t.Fatal(err)
		}
		total += len(text)
	}
	if most := rows * (3*maxBrief + 1000); len(items) < rows || total > most {
		t.Errorf("%d rows have %d bytes, want at most %d", len(items), total, most)
	}
}

// TestMenus offers the kinds and the namespaces that there are, and says which is chosen.
func TestMenus(t *testing.T) {
	t.Parallel()
	list := newMany(4).list
	texts := func(filter string) string {
		var all strings.Builder
		for _, m := range menusOf(list.Items, choice{filter: filter, rows: moreRows}) {
			fmt.Fprintf(&all, "%s=%s:", m.Name, m.Chosen)
			for _, o := range m.Options {
				fmt.Fprintf(&all, " %s(%s)", o.Text, readable(o.Link))
				if o.Chosen {
					all.WriteString("*")
				}
			}
			all.WriteString("\n")
		}
		return all.String()
	}
	for filter, want := range map[string]string{
		"": "kind=all: all(?)* App(?filter=kind:App) ModelBox(?filter=kind:ModelBox)\n" +
			"namespace=all: all(?)* models(?filter=namespace:models) shop-0(?filter=namespace:shop-0) shop-1(?filter=namespace:shop-1) shop-2(?filter=namespace:shop-2)\n",
		"kind:app 4": "kind=App: all(?filter=4) App(?filter=4)* ModelBox(?filter=4+kind:ModelBox)\n" +
			"namespace=all: all(?filter=kind:app+4)* models(?filter=kind:app+4+namespace:models) shop-0(?filter=kind:app+4+namespace:shop-0) " +
			"shop-1(?filter=kind:app+4+namespace:shop-1) shop-2(?filter=kind:app+4+namespace:shop-2)\n",
	} {
		if got := texts(filter); got != want {
			t.Errorf("%q:\n%swant\n%s", filter, got, want)
		}
	}
	if menus := menusOf(nil, choice{rows: moreRows}); menus != nil {
		t.Errorf("there is nothing to choose from, but %+v", menus)
	}
	s := listen(t, newFake())
	secret, _ := s.sessions.startSession(s.NewCode(), "")
	page := visit(s, secret, "?filter=kind:app", nil)
	for _, wanted := range []string{"<summary>kind: App</summary>", `href="?filter=kind%3Aapp&#43;group%3Ain-progress"`} {
		if text := page.Body.String(); page.Code != http.StatusOK || !strings.Contains(text, wanted) {
			t.Errorf("%d, want %s\n%s", page.Code, wanted, text)
		}
	}
}
