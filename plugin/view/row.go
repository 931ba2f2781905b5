package view

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "huolala.cn/app-operator/api/v1"
)

// Row is a resource in a table.
type Row struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     string `json:"ready,omitempty"`
	State     State  `json:"state"`
	// Since is when the state began, from the status; nil if the status does not have the time.
	Since   *metav1.Time `json:"since,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	// Cause is why the resource is in its state, in one sentence; empty for a state that needs none.
	Cause string `json:"cause,omitempty"`
	// Pending are the changes that wait for the end of a pause: their number first, and then a line each.
	Pending []string `json:"pending,omitempty"`
	// TemplateKept is true while the Deployment keeps the pod template of before an adoption.
	TemplateKept bool `json:"templateKept,omitempty"`
	// Image is the image of the spec, Serving the image of the last revision that was ready where that is another one.
	Image   string   `json:"image,omitempty"`
	Serving string   `json:"serving,omitempty"`
	Pods    PodCount `json:"pods"`
	// Schedule is when a Task runs, nil for any other kind.
	Schedule *Schedule    `json:"schedule,omitempty"`
	Created  *metav1.Time `json:"created,omitempty"`
	// Labels are the labels of the resource.
	Labels map[string]string `json:"labels,omitempty"`
}

// List is all resources, the most urgent first.
type List struct {
	Meta     `json:",inline"`
	Items    []Row     `json:"items"`
	NotShown []Missing `json:"notShown,omitempty"`
}

// RowOf returns the row of a resource.
func RowOf(r *Resource) Row {
	row := Row{
		Kind: r.Kind, Namespace: r.ObjectMeta.Namespace, Name: r.ObjectMeta.Name, Ready: r.Ready, State: r.State(), Image: r.Image, Pods: r.Pods,
		Created: createdAt(r.ObjectMeta), TemplateKept: r.TemplateKept(), Labels: r.ObjectMeta.Labels,
		Schedule: r.Schedule,
	}
	switch verdict := r.mainCondition(); row.State {
	case StateUnobserved:
		row.Reason, row.Message, row.Since = string(StateUnobserved), messageUnobserved, r.changedAt()
	case StateDeleting:
		row.Reason, row.Since = string(StateDeleting), r.ObjectMeta.DeletionTimestamp
	default:
		row.Reason, row.Message = verdict.Reason, verdict.Message
		if !verdict.LastTransitionTime.IsZero() {
			row.Since = verdict.LastTransitionTime.DeepCopy()
		}
	}
	if r.LastGoodImage != r.Image && row.State != StateReady {
		row.Serving = r.LastGoodImage
	}
	if r.IsObserved() {
		row.Pending = r.Status.Pending
	}
	row.Cause = r.causeText(&row)
	return cleanView(row)
}

// changedAt returns when the spec was last changed, or else when the resource was created.
func (r *Resource) changedAt() *metav1.Time {
	return cmp.Or(r.changedBy().Time, createdAt(r.ObjectMeta))
}

// Why is the reason, empty where it repeats the state or adds nothing to the cause.
func (r *Row) Why() string {
	switch {
	case r.State == StateReady && r.TemplateKept:
		return appv1.ReasonTemplateKept
	case r.State.Group() == GroupNeedsYou, r.State == StateHeld && r.Reason != string(StateHeld):
		return r.Reason
	}
	return ""
}

// Words returns the message of the row, with how much waits and whether the Deployment keeps the pod template of before an adoption.
func (r *Row) Words() string {
	words := r.Message
	if len(r.Pending) > 0 {
		words = r.Pending[0] + ". " + words
	}
	if r.TemplateKept {
		words = appv1.ReasonTemplateKept + ". " + words
	}
	return words
}

// RowsOf returns the table of resources, the most urgent first. The order within a state is by namespace, kind and name.
func RowsOf(resources []Resource, missing []Missing) *List { return RowsBy(RowOf, resources, missing) }

// RowsBy returns the table of resources with the rows that a function makes of them: RowOf or PublicRow.
func RowsBy(row func(*Resource) Row, resources []Resource, missing []Missing) *List {
	rows := make([]Row, 0, len(resources))
	for i := range resources {
		rows = append(rows, row(&resources[i]))
	}
	return ListOf(rows, missing)
}

// ListOf returns the table of rows, which it sorts.
func ListOf(rows []Row, missing []Missing) *List {
	list := &List{Meta: newMeta("List"), Items: rows, NotShown: cleanView(missing)}
	if rows == nil {
		list.Items = []Row{}
	}
	slices.SortStableFunc(list.Items, func(a, b Row) int {
		group, down, state := a.needRank()
		otherGroup, otherDown, otherState := b.needRank()
		return cmp.Or(
			cmp.Compare(group, otherGroup), cmp.Compare(down, otherDown), cmp.Compare(state, otherState), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(kindRank(a.Kind), kindRank(b.Kind)), cmp.Compare(a.Name, b.Name),
		)
	})
	return list
}

func kindRank(kind string) int {
	return slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == kind })
}

// createdAt returns when an object was created, nil if unknown.
func createdAt(obj metav1.ObjectMeta) *metav1.Time {
	if obj.CreationTimestamp.IsZero() {
		return nil
	}
	return obj.CreationTimestamp.DeepCopy()
}

// ListOptions are the columns of a list.
type ListOptions struct {
	// Namespaces adds the namespaces, Labels the labels, Wide the images and the whole messages.
	Namespaces, Labels, Wide bool
	// NoHead leaves out the names of the columns.
	NoHead bool
}

// Text returns the table as text. A list of Tasks alone has columns about their runs.
func (l *List) Text(s Style, now time.Time, o ListOptions) string {
	t := table{painted: 1, headed: !o.NoHead}
	columns := podColumns
	if l.hasTasksAlone() {
		columns = runColumns
	}
	cells := func(row []string, namespace, image, labels, message string) []string {
		if o.Namespaces {
			row = append([]string{namespace}, row...)
		}
		if o.Wide {
			row = append(row, image)
		}
		if o.Labels {
			row = append(row, labels)
		}
		return append(row, message)
	}
	if o.Namespaces {
		t.painted = 2
	}
	if !o.NoHead {
		t.addRow("", cells(slices.Concat([]string{"NAME", "STATE"}, columns.names), "NAMESPACE", "IMAGE", "LABELS", "MESSAGE")...)
	}
	for i := range l.Items {
		row := &l.Items[i]
		t.addRow(row.State.Mark(), cells(slices.Concat([]string{row.Kind + "/" + row.Name, string(row.State)}, columns.of(row, now)),
			row.Namespace, cmp.Or(row.Image, "-"), row.labelsText(), row.noteText(o.Wide))...)
	}
	return t.drawText(s) + notShown(s, l.NotShown)
}

// hasTasksAlone reports whether all rows are of Tasks, and there is one.
func (l *List) hasTasksAlone() bool {
	return len(l.Items) > 0 && !slices.ContainsFunc(l.Items, func(row Row) bool { return row.Schedule == nil })
}

// columns are columns of a list: their names, and the cells of a row.
type columns struct {
	names []string
	of    func(row *Row, now time.Time) []string
}

var (
	podColumns = columns{[]string{"READY", "SINCE"}, func(row *Row, now time.Time) []string {
		return []string{cmp.Or(row.Ready, "-"), cmp.Or(ageOf(row.Since, now), "-")}
	}}
	runColumns = columns{[]string{"SCHEDULE", "LAST", "RESULT", "NEXT"}, func(row *Row, now time.Time) []string {
		runs := row.Schedule
		return []string{
			runs.Cron, cmp.Or(ageOf(runs.LastStarted(), now), "-"), cmp.Or(runs.LastResult(), "-"), cmp.Or(runs.NextIn(now), "-"),
		}
	}}
)

// labelsText returns the labels as kubectl prints them.
func (r *Row) labelsText() string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		words = append(words, key+"="+r.Labels[key])
	}
	return cmp.Or(strings.Join(words, ","), "-")
}

// Orders are the ways to sort a list, the default first.
var Orders = []string{"need", "name", "since"}

// SortBy sorts the list by one of Orders. The list is sorted by need when it is made.
func (l *List) SortBy(order string) {
	slices.SortStableFunc(l.Items, func(a, b Row) int {
		switch order {
		case "name":
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(kindRank(a.Kind), kindRank(b.Kind)))
		case "since":
			return b.sinceTime().Compare(a.sinceTime())
		}
		return 0
	})
}

// sinceTime is Since, the zero time if it is not known.
func (r *Row) sinceTime() time.Time {
	if r.Since == nil {
		return time.Time{}
	}
	return r.Since.Time
}

// noteText returns the last column of the table: the reason and the cause, or the whole message.
func (r *Row) noteText(whole bool) string {
	text := r.Cause
	if whole {
		text = r.Words()
	}
	switch {
	case r.TemplateKept && !whole:
		text = strings.TrimSuffix(appv1.ReasonTemplateKept+". "+text, ". ")
	case r.Reason != string(r.State) && r.Reason != appv1.ReasonScaledToZero && r.Reason != appv1.ReasonProgressing:
		text = strings.TrimSuffix(r.Reason+": "+text, ": ")
	}
	return text
}

// notShown returns a line for each kind that could not be listed.
func notShown(s Style, missing []Missing) string {
	text := ""
	for _, m := range missing {
		text += s.wrapLines("", indent, "not shown: "+m.String())
	}
	return text
}
