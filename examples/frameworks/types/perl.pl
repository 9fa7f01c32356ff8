#!/usr/bin/perl
use strict;
use warnings;
use AnyEvent;
use AnyEvent::RabbitMQ;

my ($user, $pass, $host, $port, $vhost) = $ENV{DELAYBRIDGE_AMQP_URL} =~ m{^amqp://([^:]+):([^@]+)@([^:]+):(\d+)/(.*)$};
my $failed = sub { die "failed: @_" };
my $done = AnyEvent->condvar;
my $client = AnyEvent::RabbitMQ->new->load_xml_spec;
$client->connect(
    host => $host, port => $port, user => $user, pass => $pass, vhost => $vhost,
    on_failure => $failed, on_close => $failed, on_read_failure => $failed,
    on_success => sub {
        shift->open_channel(on_failure => $failed, on_close => sub { }, on_success => sub {
            my $channel = shift;
            my %delays = (integer => 1000, float => 1000.0 + 0.5 - 0.5, text => "1000", month => 2592000000);
            $channel->confirm(on_failure => $failed, on_success => sub {
                my $open = keys %delays;
                for my $kind (keys %delays) {
                    $channel->publish(
                        exchange => 'delaybridge.entry', routing_key => 'types', body => "perl-$kind",
                        header => { message_id => "perl-$kind", headers => { 'x-delay' => $delays{$kind} } },
                        on_ack => sub { $done->send unless --$open }, on_nack => $failed,
                    );
                }
            });
        });
    },
);
$done->recv;
