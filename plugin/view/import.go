package view

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	names "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/api/v1/validation"
	"huolala.cn/app-operator/resource"
)

// Import is an App that takes over a Deployment, and notes on the differences.
type Import struct {
	App   *appv1.App
	Notes []ImportNote
}

// ImportNote is a note on a field of an object that an App cannot have, or has with another value.
type ImportNote struct {
	Object, Field, Text string
}

// importing is an import on its way.
type importing struct {
	Import
	from     *Source
	selector map[string]string
}

// ImportOf returns the App that takes over a Deployment, with the other objects for its pods, without a restart. Applied where there is no such
// Deployment, the App creates objects that mean the same.
func ImportOf(from *Source) (*Import, error) {
	d := from.Deployment
	if ref := metav1.GetControllerOf(d); ref != nil {
		return nil, fmt.Errorf("%s %s %w Deployment %s, which cannot be taken over", ref.Kind, ref.Name, ErrControls, d.Name)
	}
	if err := checkImport(d); err != nil {
		return nil, err
	}
	i := &importing{from: withDefaults(from), selector: d.Spec.Selector.MatchLabels}
	i.App = &appv1.App{
		TypeMeta:   metav1.TypeMeta{APIVersion: appv1.GroupVersion.String(), Kind: resource.KindApp.Name},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name},
	}
	i.importDeployment()
	i.importPodMetadata()
	i.importContainer()
	i.importPod()
	service, others := i.importService()
	i.importMetadata(service)
	if err := i.importRest(); err != nil {
		return nil, err
	}
	i.notePorts()
	i.importProbes()
	i.importAutoscaler()
	i.importBudget()
	i.importIngress(service, others)
	i.noteRoutes(service, others)
	i.notePolicies()
	i.noteMonitors()
	i.leaveInvalid()
	i.leaveDefaults()
	i.Notes = cleanView(i.Notes)
	return &i.Import, nil
}

// ErrControls is the error for a Deployment of another owner, and the verb of its message.
var ErrControls = errors.New("controls")

// checkImport returns an error for a Deployment that no App can take over, whatever the App states.
func checkImport(d *appsv1.Deployment) error {
	object := "Deployment " + d.Name
	switch {
	case len(d.Spec.Template.Spec.Containers) == 0 || d.Spec.Selector == nil:
		return fmt.Errorf("%s has no containers or no selector", object)
	case len(d.Spec.Selector.MatchExpressions) > 0:
		return fmt.Errorf("%s has spec.selector.matchExpressions, so no App can take it over: an App selects its pods by labels alone, "+
			"and Kubernetes cannot change the selector", object)
	}
	if errs := names.IsDNS1035Label(d.Name); len(errs) > 0 {
		return fmt.Errorf("%s cannot be taken over: the App would have its name, and an App's metadata.name is at most 63 lower-case "+
			"letters, digits and '-', and starts with a letter", object)
	}
	return nil
}

func (i *importing) addNote(object, field, text string, args ...any) {
	i.Notes = append(i.Notes, ImportNote{Object: object, Field: field, Text: fmt.Sprintf(text, args...)})
}

// leaveInvalid notes all validation errors of the App, and removes its invalid auxiliary objects.
func (i *importing) leaveInvalid() {
	errs := validation.App(i.App)
	_, wrong := resource.App(i.App, importOptions(i.App))
	if len(errs)+len(wrong) == 0 {
		return
	}
	for _, err := range validation.List(append(slices.Clone(errs), wrong...)) {
		text := err.Detail
		if text == "" {
			text = err.ErrorBody()
		}
		i.addNote("App", err.Field, "%s", text)
	}
	i.App.Spec.ServingSpec = *validation.ValidServing(&i.App.Spec.ServingSpec, errs, field.NewPath("spec"))
}

// importOptions returns the build options of an App without live objects, as in an empty namespace.
func importOptions(app *appv1.App) resource.BuildOptions {
	return resource.BuildOptions{Unrecorded: true, Inputs: resource.BuildInputs{
		Rendering: resource.RenderingLatest, Size: resource.BuiltInSizes().Resolve(app.Spec.Size), ServiceAccount: resource.AccountName(&app.Spec.ServingSpec, app.Name),
	}}
}

// Manifest returns the App as a user writes it: without a status and without members that are null.
func (i *Import) Manifest() (map[string]any, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(i.App)
	if err != nil {
		return nil, err
	}
	delete(fields, "status")
	dropNulls(fields)
	return fields, nil
}

// HeadComments returns lines of YAML for the head of the manifest: how to take over the objects, and each note. The manifest has no annotation for
// that: it outlives the adoption, and would take over objects of others at any later time.
func (i *Import) HeadComments() string {
	var head strings.Builder
	fmt.Fprintf(&head, "# Once this is applied, take over what exists, without a restart: %s\n",
		CleanLine(PluginCommand(i.App.Namespace, "adopt", i.App.Name)))
	for _, note := range i.Notes {
		fmt.Fprintf(&head, "# %s: %s %s.\n", note.Object, note.Field, note.Text)
	}
	return head.String()
}

// dropNulls removes the members of a tree that are null, such as times that are not set.
func dropNulls(tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		maps.DeleteFunc(tree, func(_ string, value any) bool { return value == nil })
		for _, value := range tree {
			dropNulls(value)
		}
	case []any:
		for _, item := range tree {
			dropNulls(item)
		}
	}
}
