// Package view computes the views of a custom resource for a person: a row of a table, the tree of its children, why it is not ready, the
// progress of a rollout, and its history.
//
// The package is pure, as package resource is: objects and the present time in, data and text out. The causes come from package health, so
// that a page, a terminal and the status of a resource have the same texts.
package view

// APIVersion is the version of the data, as programs read it.
const APIVersion = "cli.app.huolala.cn/v1"

// Meta is the type of a piece of data, at its head.
type Meta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func newMeta(kind string) Meta { return Meta{APIVersion: APIVersion, Kind: kind} }
