%% A stand-in for the exchange of the plugin rabbitmq_delayed_message_exchange,
%% which nobody can install any more: it routes as the plugin's does, by the
%% type that the argument x-delayed-type names, once x-delay has passed. As the
%% plugin it drops what nothing is bound for by then, and shows how many messages
%% it holds on its node. Unlike the plugin it holds them in memory, and leaves
%% x-delay as it was sent.
-module(delayed_message_stand_in).
-behaviour(rabbit_exchange_type).
-export([start/0, description/0, serialise_events/0, route/2, route/3, info/1, info/2,
         validate/1, validate_binding/2, create/2, delete/2, delete/3, policy_changed/2,
         add_binding/3, remove_bindings/3, assert_args_equivalence/2]).
start() ->
    Caller = self(),
    spawn(fun() ->
        delayed_message_stand_in = ets:new(delayed_message_stand_in, [named_table, public]),
        Caller ! started,
        receive stop -> ok end
    end),
    receive started -> ok end.
type(Exchange) ->
    {_, _, Type} = lists:keyfind(<<"x-delayed-type">>, 1, element(7, Exchange)),
    {ok, Module} = rabbit_registry:lookup_module(exchange, binary_to_existing_atom(Type, utf8)),
    Module.
description() -> [{description, <<"stand-in for the delayed-message plugin">>}].
serialise_events() -> false.
route(X, Delivery) -> route(X, Delivery, #{}). % up to RabbitMQ 3.12
route(X, Message, Options) ->
    case get(due) =/= true andalso delay(Message) of
        Delay when is_integer(Delay), Delay > 0 -> hold(X, Message, Delay), [];
        _ when element(1, Message) =:= delivery -> (type(X)):route(X, Message);
        _ -> (type(X)):route(X, Message, Options)
    end.
delay(Message) ->
    Value = case element(1, Message) of
        delivery ->
            Headers = rabbit_basic:extract_headers(element(4, element(5, Message))),
            Headers =/= undefined andalso rabbit_misc:table_lookup(Headers, <<"x-delay">>);
        _ -> mc:x_header(<<"x-delay">>, Message)
    end,
    case Value of
        {_, Delay} -> Delay;
        _ -> 0
    end.
hold(X, Message, Delay) ->
    Key = make_ref(),
    ets:insert(delayed_message_stand_in, {Key, element(2, X)}),
    spawn(fun() ->
        timer:sleep(Delay),
        put(due, true), % so that neither this nor another exchange of the type delays it again
        deliver(X, Message),
        ets:delete(delayed_message_stand_in, Key)
    end).
deliver(X, Delivery) when element(1, Delivery) =:= delivery ->
    rabbit_amqqueue:deliver(rabbit_amqqueue:lookup(rabbit_exchange:route(X, Delivery)), Delivery);
deliver(X, Message) -> rabbit_queue_type:publish_at_most_once(X, Message).
info(X) -> [{messages_delayed, length(ets:match_object(delayed_message_stand_in, {'_', element(2, X)}))}].
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
