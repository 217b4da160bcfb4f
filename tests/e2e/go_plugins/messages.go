package main

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of v1beta1 are few: they are read and written by field number, so that no generator is needed.

type message []byte

func (m message) text(number protowire.Number, text string) message {
	return protowire.AppendString(protowire.AppendTag(m, number, protowire.BytesType), text)
}

func (m message) inner(number protowire.Number, inner message) message {
	return protowire.AppendBytes(protowire.AppendTag(m, number, protowire.BytesType), inner)
}

// fields calls visit with each field of a message that holds bytes.
func (m message) fields(visit func(number protowire.Number, content []byte)) error {
	for len(m) > 0 {
		number, kind, length := protowire.ConsumeTag(m)
		if length < 0 {
			return protowire.ParseError(length)
		}
		m = m[length:]
		if kind == protowire.BytesType {
			content, length := protowire.ConsumeBytes(m)
			if length < 0 {
				return protowire.ParseError(length)
			}
			visit(number, content)
			m = m[length:]
			continue
		}
		length = protowire.ConsumeFieldValue(number, kind, m)
		if length < 0 {
			return protowire.ParseError(length)
		}
		m = m[length:]
	}
	return nil
}

// containerRequests returns the device IDs of each container of an AllocateRequest.
func containerRequests(request message) (containers [][]string, err error) {
	err = request.fields(func(_ protowire.Number, container []byte) {
		var ids []string
		err := message(container).fields(func(_ protowire.Number, id []byte) { ids = append(ids, string(id)) })
		if err == nil {
			containers = append(containers, ids)
		}
	})
	return containers, err
}

func registerRequest(endpoint, resource string) message {
	return message{}.text(1, "v1beta1").text(2, endpoint).text(3, resource)
}

func deviceList(ids []string) message {
	list := message{}
	for _, id := range ids {
		list = list.inner(1, message{}.text(1, id).text(2, "Healthy"))
	}
	return list
}

func containerResponse(name, value string) message {
	return message{}.inner(1, message{}.text(1, name).text(2, value))
}

// codec hands messages to gRPC as they are.
type codec struct{}

func (codec) Marshal(value interface{}) ([]byte, error) {
	encoded, ok := value.(message)
	if !ok {
		return nil, fmt.Errorf("cannot encode %T", value)
	}
	return encoded, nil
}

func (codec) Unmarshal(encoded []byte, value interface{}) error {
	*value.(*message) = append(message{}, encoded...)
	return nil
}

func (codec) Name() string { return "proto" }
