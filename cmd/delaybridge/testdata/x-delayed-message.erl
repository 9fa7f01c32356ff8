%% A stand-in for the exchange of the plugin rabbitmq_delayed_message_exchange,
%% which nobody can install any more: it routes as the plugin's does, by the
%% type that the argument x-delayed-type names, but at once.
-module(delayed_message_stand_in).
-behaviour(rabbit_exchange_type).
-export([description/0, serialise_events/0, route/2, route/3, info/1, info/2,
         validate/1, validate_binding/2, create/2, delete/2, delete/3, policy_changed/2,
         add_binding/3, remove_bindings/3, assert_args_equivalence/2]).
type(Exchange) ->
    {_, _, Type} = lists:keyfind(<<"x-delayed-type">>, 1, element(7, Exchange)),
    {ok, Module} = rabbit_registry:lookup_module(exchange, binary_to_existing_atom(Type, utf8)),
    Module.
description() -> [{description, <<"stand-in for the delayed-message plugin">>}].
serialise_events() -> false.
route(X, Delivery) -> (type(X)):route(X, Delivery).
route(X, Message, Options) -> (type(X)):route(X, Message, Options).
info(_) -> [{messages_delayed, 3}].
info(X, _) -> info(X).
validate(X) -> _ = type(X), ok.
validate_binding(X, B) -> (type(X)):validate_binding(X, B).
create(Serial, X) -> (type(X)):create(Serial, X).
delete(Serial, X) -> (type(X)):delete(Serial, X).
delete(Serial, X, Bs) -> (type(X)):delete(Serial, X, Bs).
policy_changed(_, _) -> ok.
add_binding(Serial, X, B) -> (type(X)):add_binding(Serial, X, B).
remove_bindings(Serial, X, Bs) -> (type(X)):remove_bindings(Serial, X, Bs).
assert_args_equivalence(X, Args) -> rabbit_exchange:assert_args_equivalence(X, Args).
