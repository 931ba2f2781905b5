package view

import (
	"encoding/json"
	"errors"

	"huolala.cn/app-operator/api/v1/bounds"
	"huolala.cn/app-operator/resource"
)

// maxRecords is how many bytes of JSON are read of the records of a history. A user who can create ReplicaSets can have hundreds, each with a record of
// 1 KB that expands to bounds.MaxSpec. Two of the longest specs fit in, or 64 records of the length up to which the operator compresses none.
const maxRecords = 2 * bounds.MaxSpec

// The faults of records that are not read.
const (
	faultUnreadable = "unreadable record"
	faultTooMany    = "too many long records before it"
)

// recordReader reads the records of a history, the newest first, within maxRecords.
type recordReader struct {
	// read is how many bytes of JSON were read so far.
	read int
	// left is true once a record is not read because of maxRecords.
	left bool
}

// readRecord returns a record as plain JSON, or its fault. A compressed record that cannot be read counts as the longest one: as much may have been decompressed.
func (r *recordReader) readRecord(record string) (plain, fault string) {
	if record == "" {
		return "", "no record"
	}
	if r.read >= maxRecords {
		r.left = true
		return "", faultTooMany
	}
	var whole json.RawMessage
	switch err := resource.DecodeSpec(record, &whole); {
	case errors.Is(err, resource.ErrNoSpec):
		return "", "only a hash"
	case err != nil:
		r.read += len(record)
		if resource.IsCompressed(record) {
			r.read += bounds.MaxSpec
		}
		return "", faultUnreadable
	}
	if r.read+len(whole) > maxRecords { // No older record is read either, however short it is.
		r.read, r.left = maxRecords, true
		return "", faultTooMany
	}
	r.read += len(whole)
	return string(whole), ""
}
