package view

import (
	"cmp"
	"slices"
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
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	// Pending are the changes that wait for the end of a pause: their number first, and then a line each.
	Pending []string `json:"pending,omitempty"`
	// TemplateKept is true while the Deployment keeps the pod template of before an adoption.
	TemplateKept bool         `json:"templateKept,omitempty"`
	Image        string       `json:"image,omitempty"`
	Created      *metav1.Time `json:"created,omitempty"`
}

// List is all resources, worst first.
type List struct {
	Meta     `json:",inline"`
	Items    []Row     `json:"items"`
	NotShown []Missing `json:"notShown,omitempty"`
}

// RowOf returns the row of a resource.
func RowOf(r *Resource) Row {
	row := Row{
		Kind: r.Kind, Namespace: r.ObjectMeta.Namespace, Name: r.ObjectMeta.Name, Ready: r.Ready, State: r.State(), Image: r.Image,
		Created: created(r.ObjectMeta), TemplateKept: r.TemplateKept(),
	}
	switch verdict := r.verdict(); row.State {
	case StateUnobserved:
		row.Reason, row.Message = string(StateUnobserved), messageUnobserved
	case StateDeleting:
		row.Reason = string(StateDeleting)
	default:
		row.Reason, row.Message = verdict.Reason, verdict.Message
	}
	if r.Observed() {
		row.Pending = r.Status.Pending
	}
	return shown(row)
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

// Rows returns the table of resources. Resources that need a user come first, and then the order is by namespace, kind and name.
func Rows(resources []Resource, missing []Missing) *List {
	rows := make([]Row, 0, len(resources))
	for i := range resources {
		rows = append(rows, RowOf(&resources[i]))
	}
	return ListOf(rows, missing)
}

// ListOf returns the table of rows, which it sorts.
func ListOf(rows []Row, missing []Missing) *List {
	list := &List{Meta: head("List"), Items: rows, NotShown: shown(missing)}
	if rows == nil {
		list.Items = []Row{}
	}
	slices.SortStableFunc(list.Items, func(a, b Row) int {
		return cmp.Or(
			cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State)), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(kindRank(a.Kind), kindRank(b.Kind)), cmp.Compare(a.Name, b.Name),
		)
	})
	return list
}

func kindRank(kind string) int {
	return slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == kind })
}

// created returns when an object was created, nil if unknown.
func created(obj metav1.ObjectMeta) *metav1.Time {
	if obj.CreationTimestamp.IsZero() {
		return nil
	}
	return obj.CreationTimestamp.DeepCopy()
}

// mark returns the mark of a state.
func (s State) mark() Mark {
	switch s {
	case StateReady:
		return MarkGood
	case StateStalled:
		return MarkBad
	case StatePaused:
		return ""
	}
	return MarkBusy
}

// Text returns the table as text. namespaces adds the column of the namespace, wide the columns of the image and the whole message.
func (l *List) Text(s Style, now time.Time, namespaces, wide bool) string {
	t := table{painted: 2, headed: true}
	cells := func(row []string, namespace, image string) []string {
		if namespaces {
			row = append([]string{namespace}, row...)
		}
		if wide {
			row = append(row, image)
		}
		return row
	}
	if namespaces {
		t.painted = 3
	}
	head := cells([]string{"NAME", "READY", "STATUS", "AGE", "MESSAGE"}, "NAMESPACE", "IMAGE")
	t.shrinks = []int{len(head) - 1}
	if wide {
		s.Width = 0 // A wide table is not cut.
	}
	t.add("", head...)
	for i := range l.Items {
		row := &l.Items[i]
		message := row.Words()
		if row.State == StateReady && row.Reason == appv1.ReasonReady && !row.TemplateKept && !wide {
			message = ""
		}
		t.add(row.State.mark(), cells([]string{
			row.Kind + "/" + row.Name, cmp.Or(row.Ready, "-"), cmp.Or(row.Reason, "-"), age(row.Created, now), message,
		}, row.Namespace, cmp.Or(row.Image, "-"))...)
	}
	return t.text(s) + notShown(s, l.NotShown)
}

// notShown returns a line for each kind that could not be listed.
func notShown(s Style, missing []Missing) string {
	text := ""
	for _, m := range missing {
		text += s.cut("not shown: "+m.String(), s.Width) + "\n"
	}
	return text
}
