package main

import (
	"context"

	"google.golang.org/grpc"
)

type answer func(*plugin, context.Context, message) (message, error)

// method makes a unary method of an answer.
func method(name string, answer answer) grpc.MethodDesc {
	return grpc.MethodDesc{
		MethodName: name,
		Handler: func(server interface{}, ctx context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
			var request message
			if err := decode(&request); err != nil {
				return nil, err
			}
			return answer(server.(*plugin), ctx, request)
		},
	}
}

var devicePlugin = grpc.ServiceDesc{
	ServiceName: "v1beta1.DevicePlugin",
	HandlerType: (*interface{})(nil),
	Methods: []grpc.MethodDesc{
		method("GetDevicePluginOptions", (*plugin).options),
		method("Allocate", (*plugin).allocate),
	},
	Streams: []grpc.StreamDesc{{
		StreamName:    "ListAndWatch",
		ServerStreams: true,
		Handler: func(server interface{}, stream grpc.ServerStream) error {
			var request message
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			return server.(*plugin).listAndWatch(stream)
		},
	}},
}
