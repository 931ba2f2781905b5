package view

import (
	"slices"
	"strings"

	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/resource"
)

// Kind is a kind of custom resource, as a user names it and as its pods are found.
type Kind struct {
	// Name is the kind, Plural the resource of the API.
	Name, Plural string
	// Short are further names that a user can write, in lower case.
	Short []string
	// PodLabel is the label of pods that has the resource's name.
	PodLabel string
}

// Kinds are all kinds, in the order of a table.
var Kinds = []Kind{
	{Name: resource.KindApp, Plural: "apps", Short: []string{"app", "happ"}, PodLabel: appv1.LabelApp},
	{Name: resource.KindModelBox, Plural: "modelboxes", Short: []string{"modelbox", "mbox"}, PodLabel: appv1.LabelModelBox},
	{
		Name: resource.KindUnitedDeployment, Plural: "uniteddeployments", Short: []string{"uniteddeployment", "hud", "ud"},
		PodLabel: appv1.LabelUnitedDeployment,
	},
	{Name: resource.KindCloudManager, Plural: "cloudmanagers", Short: []string{"cloudmanager", "cmgr"}, PodLabel: appv1.LabelCloudManager},
}

// KindOf returns the kind of a name that a user has written: the kind, its plural, a short name, each with or without the group.
func KindOf(word string) (Kind, bool) {
	word = strings.ToLower(word)
	if name, group, found := strings.Cut(word, "."); found {
		if group != appv1.GroupVersion.Group && group != appv1.GroupVersion.Version+"."+appv1.GroupVersion.Group {
			return Kind{}, false
		}
		word = name
	}
	for _, k := range Kinds {
		if word == k.Plural || slices.Contains(k.Short, word) {
			return k, true
		}
	}
	return Kind{}, false
}

// APIVersion is the API version of the resources of a kind.
func (Kind) APIVersion() string { return appv1.GroupVersion.String() }
